"""Numbers, units, names and ranges, as Nsight Compute prints them."""

import pytest

from traceql.readers.ncu.csv_file import ranges
from traceql.readers.ncu.kernel_names import kernel_name
from traceql.readers.ncu.values import Mark, base_unit, evidence, looks_like_number, number

POINT, COMMA = Mark.POINT, Mark.COMMA


@pytest.mark.parametrize(
    ("text", "mark", "value", "step"),
    [
        ("-12", None, -12, 1),
        ("21.058.944", None, 21_058_944, 1),
        ("196.456.177.859,63", None, 196_456_177_859.63, 0.01),
        ("61,84", None, 61.84, 0.01),
        ("0.125", None, 0.125, 0.001),  # no number of thousands begins with 0
        ("1,024", POINT, 1024, 1),
        ("1.024", COMMA, 1024, 1),
        ("5.408000", COMMA, 5.408, 1e-6),  # printed so in every locale
        ("1\u202f024,5", None, 1024.5, 0.1),
        ("1e+06", None, 1e6, 0),
    ],
)
def test_numbers(text: str, mark: Mark | None, value: float, step: float) -> None:
    found = number(text, mark)
    assert found is not None
    assert found.value == pytest.approx(value, rel=1e-15)
    assert found.step == pytest.approx(step)


@pytest.mark.parametrize("text", ["1,024", "-1.234"])
def test_a_number_that_can_be_read_in_two_ways_is_not_read_without_evidence(text: str) -> None:
    assert looks_like_number(text)
    assert number(text, None) is None


@pytest.mark.parametrize("text", ["n/a", "", "nan", "1,2,3", "12,34.5", "9.0a", "1e999", "9" * 400])
def test_what_is_no_number(text: str) -> None:
    assert number(text, POINT) is None
    assert number(text, COMMA) is None
    assert not looks_like_number(text)


@pytest.mark.parametrize("text", ["12,34,567", "3 072"])
def test_groups_of_other_locales_are_numbers_that_cannot_be_read(text: str) -> None:
    assert looks_like_number(text)
    assert number(text, POINT) is None


def test_numbers_of_a_file_give_its_decimal_mark() -> None:
    german = evidence(["1.980.000", "0,33", "1.024", "5.408000", "n/a", "7"])
    assert (german.mark, german.numbers) == (COMMA, {COMMA: 2})
    english = evidence(["0.33", "0.33", "1,024", "5.408000"])
    assert (english.mark, english.numbers, english.example) == (POINT, {POINT: 2}, {POINT: "0.33"})
    assert evidence(["1,024", "5.408000", "7"]).mark is None
    assert evidence(["0,33", "0.33"]).mark is None


@pytest.mark.parametrize(
    ("unit", "base", "factor"),
    [
        ("Gbyte", "byte", 1e9),
        ("nsecond", "ns", 1),
        ("usecond", "ns", 1e3),
        ("percent", "%", 1),
        ("Ghz", "hz", 1e9),
        ("cycle/nsecond", "hz", 1e9),
        ("Tbyte/second", "byte/s", 1e12),
        ("byte/ns", "byte/s", 1e9),
        ("Kbyte/block", "byte/block", 1e3),
        ("inst/cycle", "inst/cycle", 1),
        ("Minst", "inst", 1e6),
        ("pass", "pass", 1),
        ("", "", 1),
    ],
)
def test_units(unit: str, base: str, factor: float) -> None:
    assert base_unit(unit) == (base, factor)


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT", "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT"),
        ("void <unnamed>::f<int, g(const A &)::[lambda() (instance 1)]>(T1)", "f"),
        (
            "std::enable_if<(((8)>(0)))&&vllm::_typeConvert<c10::BFloat16>::exists, void>::type "
            "vllm::norm<c10::BFloat16, 8, true>(c10::BFloat16*, long)",
            "norm",
        ),
        ("copy[abi:v1,cw51cXTLSUwv1sD](Array<long long, 1, C>, long long)", "copy"),
        ("void f<(cudaDataType)14, std::array<char*, 2ul> >(int) [clone .kd]", "f"),
        ("void at::native::g<float, h<int>(A)::{lambda(at::cuda::detail::", "g"),  # cut off
    ],
)
def test_the_base_of_a_name(name: str, base: str) -> None:
    assert kernel_name(name).base == base


@pytest.mark.parametrize(
    ("of_ncu", "of_trace"),
    [
        (
            "void at::vectorized_elementwise_kernel<4, at::FillFunctor<int>, "
            "std::array<char *, 1>>(int, T2, T3)",
            "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>, "
            "std::array<char*, 1ul> >(int, at::native::FillFunctor<int>, std::array<char*, 1ul>)",
        ),
        (
            "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, 0>(const T1 *)",
            "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, "
            "(vllm::Fp8KVCacheDataType)0>(__nv_bfloat16 const*)",
        ),
        (
            "void <unnamed>::elementwise_kernel_with_index<int, at::arange_cuda_out(const "
            "c10::Scalar &)::[lambda() (instance 1)]::operator ()() const::[lambda(long) "
            "(instance 3)]>(T1, T2)",
            "void (anonymous namespace)::elementwise_kernel_with_index<int, "
            "at::native::arange_cuda_out(c10::Scalar const&)::{lambda()#1}::operator()() "
            "const::{lambda(long)#3}>(int, at::native::X)",
        ),
    ],
)
def test_two_demanglers_mean_one_kernel(of_ncu: str, of_trace: str) -> None:
    assert kernel_name(of_ncu) == kernel_name(of_trace)
    assert kernel_name(of_ncu).arguments is not None


def test_other_template_arguments_mean_another_kernel() -> None:
    assert kernel_name("void f<int, 2>(T1)") != kernel_name("void f<int, 3>(int)")
    assert kernel_name("f").arguments is None


def test_ranges_are_named_from_the_outermost_one() -> None:
    none = ":none:none:none:none:none:none"
    named = "llm_engine step: get_output"
    cell = (
        f'1410  "<default domain>:{named}:none:none:RGB:0xff:REGISTERED:{named}"  '
        f'"<default domain>:execute_context_4(700)_generation_0(0){none}"  '
        f"\"NCCL:{{'Module': 'model.layers.0', 'Inputs': [[4], [4, 4096]]}}{none}\" "
    )
    assert ranges(cell) == [
        "llm_engine step: get_output",
        "execute_context_4(700)_generation_0(0)",
        "{'Module': 'model.layers.0', 'Inputs': [[4], [4, 4096]]}",
    ]
    assert ranges("") == []
