from tests.support.check_cases import run_fixture


def test_fixture() -> None:
    assert run_fixture("first") > 0
