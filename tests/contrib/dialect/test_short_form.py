"""The short form of a dialect: quotes and types are put in, lines stay, and what is complete stays as it is."""

import pytest

from autotune.contrib.dialect.short_form import complete

TENSOR = "tensor<4x6xf32>"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("%y = gpt.f(%x)", '%y = "gpt.f"(%x) : (none) -> (none)'),
        ("%a, %b = gpt.f(%x, %y) {n = 2}", '%a, %b = "gpt.f"(%x, %y) {n = 2} : (none, none) -> (none, none)'),
        (
            "%r:2 = gpt.f()\n%y = gpt.g(%r#1)",
            '%r:2 = "gpt.f"() : () -> (none, none)\n%y = "gpt.g"(%r#1) : (none) -> (none)',
        ),
        ("%y = gpt.f(%x) // gpt.g(%x)", '%y = "gpt.f"(%x) : (none) -> (none) // gpt.g(%x)'),
        ('%y = gpt.f(%x) {s = "}{"}', '%y = "gpt.f"(%x) {s = "}{"} : (none) -> (none)'),
        (
            f"func.func @f(%x: {TENSOR} {{a.b = 1}}, %z: memref<2xf32, strided<[1]>>) {{\n"
            "  %y = gpt.f(%x)\n  return %y\n}",
            f"func.func @f(%x: {TENSOR} {{a.b = 1}}, %z: memref<2xf32, strided<[1]>>) -> (none) {{\n"
            f'  %y = "gpt.f"(%x) : ({TENSOR}) -> (none)\n  return %y : none\n}}',
        ),
        (
            "%o = gpt.block(%x) ({\n^bb0(%i, %y: index):\n  %z = gpt.f(%i, %y)\n  vector.yield %z\n}) {n = 3}",
            '%o = "gpt.block"(%x) ({\n^bb0(%i: none, %y: index):\n  %z = "gpt.f"(%i, %y) : (none, index) -> (none)\n'
            "  vector.yield %z : none\n}) {n = 3} : (none) -> (none)",
        ),
        (
            f'%y = "gpt.f"(%x) : (none) -> {TENSOR}\n%z = gpt.g(%y)',
            f'%y = "gpt.f"(%x) : (none) -> {TENSOR}\n%z = "gpt.g"(%y) : ({TENSOR}) -> (none)',
        ),
        ("%y = other.f(%x)\n%z = gpt.f %x", "%y = other.f(%x)\n%z = gpt.f %x"),
    ],
)
def test_what_is_left_out_is_put_in(text, wanted):
    assert complete(text, "gpt") == wanted


BROKEN = ("", "gpt.f(", "%", "gpt.f({", "func.func @f(%x: tensor<", "return %x,", "^bb0(", "%x = }) (")


@pytest.mark.parametrize("text", BROKEN)
def test_what_is_no_text_comes_back_for_the_parser_to_refuse(text):
    assert complete(text, "gpt").count("\n") == text.count("\n")


def test_what_is_complete_stays():
    body = f'%y = "gpt.f"(%x) : ({TENSOR}) -> {TENSOR}\n  return %y : {TENSOR}'
    text = f"func.func @f(%x: {TENSOR}) -> {TENSOR} {{\n  {body}\n}}"
    assert complete(text, "gpt") == text
