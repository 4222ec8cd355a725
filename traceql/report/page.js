// A click on a column title sorts the table. Long tables show only their first rows at first.
const SHOWN = 10;

function sort(head) {
  const table = head.closest("table");
  const body = table.tBodies[0];
  const column = head.cellIndex;
  const upward = head.getAttribute("aria-sort") === "descending";
  const isNumber = head.classList.contains("n");
  const value = (row) => {
    const cell = row.cells[column];
    return isNumber ? parseFloat(cell.dataset.v) : cell.textContent;
  };
  const order = (a, b) => {
    if (!isNumber) return a.localeCompare(b);
    if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b);
    return a - b;
  };
  const rows = [...body.rows].sort((a, b) => (upward ? 1 : -1) * order(value(a), value(b)));
  for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", upward ? "ascending" : "descending");
  body.append(...rows);
}

for (const head of document.querySelectorAll("th")) {
  head.tabIndex = 0;
  head.addEventListener("click", () => sort(head));
  head.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    sort(head);
  });
}

for (const table of document.querySelectorAll("table")) {
  const rows = table.tBodies[0].rows.length;
  if (rows <= SHOWN + 2) continue;
  const button = document.createElement("button");
  button.type = "button";
  const fold = (folded) => {
    table.classList.toggle("folded", folded);
    button.textContent = folded ? `Show all ${rows} rows` : `Show only the first ${SHOWN} rows`;
    button.setAttribute("aria-expanded", String(!folded));
  };
  button.addEventListener("click", () => fold(!table.classList.contains("folded")));
  fold(true);
  table.parentElement.after(button);
}

// Following a link to a definition unfolds it.
function open() {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  if (target instanceof HTMLDetailsElement) target.open = true;
}
addEventListener("hashchange", open);
open();
