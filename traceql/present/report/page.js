// A click on a column title sorts the table. Long tables show only their first rows at first.
// The filters choose the phase whose views are shown, and the rank whose rows and marks are.
const SHOWN = 10;
const filters = document.getElementById("filters");
const expanded = new WeakSet();

const chosen = (name) => filters?.elements[name]?.value ?? "";

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
  showRows(table);
}

// Whether a row or mark is of the chosen phase and rank, or of none.
const isChosen = (element) => ["phase", "rank"].every((name) => {
  const [wanted, own] = [chosen(name), element.dataset[name]];
  return !wanted || !own || own === wanted;
});

// Hides the rows of others, and those after the first few until they are asked for.
function showRows(table) {
  const rows = [...table.tBodies[0].rows];
  const own = rows.filter(isChosen);
  const folded = own.length > SHOWN + 2 && !expanded.has(table);
  for (const row of rows) row.hidden = true;
  for (const row of folded ? own.slice(0, SHOWN) : own) row.hidden = false;
  const button = table.parentElement.nextElementSibling;
  if (button?.tagName !== "BUTTON") return;
  button.hidden = own.length <= SHOWN + 2;
  button.textContent = folded ? `Show all ${own.length} rows` : `Show only the first ${SHOWN} rows`;
  button.setAttribute("aria-expanded", String(!folded));
}

function showFigure(figure, phase, rank) {
  const views = [...figure.querySelectorAll(".view")];
  const view = views.find((each) => each.dataset.phase === phase);
  for (const each of views) each.hidden = each !== (view ?? views[0]);
  const shown = view ?? views[0];
  const said = ["phase", "rank"].filter(chosen).map((name) => {
    const all = `all ${name}s`;
    const one = name === "rank" ? `rank ${rank}` : phase;
    if (name === "phase" && view) return one;
    if (name === "phase" && figure.classList.contains("of-phases")) return `${all}, as nothing is in ${one}`;
    const [inTable, inChart] = [`tr[data-${name}]`, `svg [data-${name}]`].map((each) => shown?.querySelector(each));
    if (inTable && !inChart && shown.querySelector("svg")) return `${one} in the table, ${all} in the chart`;
    return inTable || inChart ? one : all;
  });
  const title = figure.querySelector("h3");
  title.querySelector("small")?.remove();
  if (!said.length) return;
  const note = document.createElement("small");
  note.textContent = said.join(", ");
  title.append(" ", note);
}

function filter() {
  for (const figure of document.querySelectorAll("figure")) showFigure(figure, chosen("phase"), chosen("rank"));
  for (const mark of document.querySelectorAll("svg [data-phase], svg [data-rank]"))
    mark.classList.toggle("off", !isChosen(mark));
  for (const table of document.querySelectorAll("table")) showRows(table);
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
  if (table.tBodies[0].rows.length <= SHOWN + 2) continue;
  const button = document.createElement("button");
  button.type = "button";
  button.addEventListener("click", () => {
    if (!expanded.delete(table)) expanded.add(table);
    showRows(table);
  });
  table.parentElement.after(button);
}

if (filters) {
  filters.hidden = false;
  filters.addEventListener("change", filter);
}

// A finding's link chooses the phase and the rank that the finding is about.
for (const link of document.querySelectorAll(".places a")) {
  link.addEventListener("click", () => {
    for (const name of ["phase", "rank"])
      if (filters?.elements[name]) filters.elements[name].value = link.dataset[name] ?? "";
    filter();
  });
}

// Following a link to a definition unfolds it.
function open() {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  if (target instanceof HTMLDetailsElement) target.open = true;
}
addEventListener("hashchange", open);
open();
filter();
