import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.errors import Invalid
from domain.releases import CATALOGUE, Catalogue, Release, Version, known

numbers = st.integers(0, 999_999_999)
versions = st.builds(Version, major=numbers, minor=numbers, patch=numbers)


@given(versions)
def test_a_version_is_read_back_from_its_text(version: Version) -> None:
    assert Version.parse(str(version)) == version
    assert Version.parse(f"v{version}") == version


@given(versions, versions)
def test_versions_order_as_numbers_do(one: Version, other: Version) -> None:
    def numbers(version: Version) -> tuple[int, int, int]:
        return version.major, version.minor, version.patch

    assert (one < other) == (numbers(one) < numbers(other))
    assert (one >= other) == (numbers(one) >= numbers(other))


def test_ten_comes_after_nine() -> None:
    assert Version.parse("1.9.0") < Version.parse("1.10.0")


@pytest.mark.parametrize(
    "text",
    [
        *("", "1", "1.31", "1.31.4.5", "1.31.4-rc.1", "01.31.4", "1.31.x", " 1.31.4", "1.31.4\n"),
        *("V1.31.4", "vv1.31.4", "1.3\N{ARABIC-INDIC DIGIT ONE}.4", "1.2." + "9" * 5000),
    ],
)
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="is not a version such as"):
        Version.parse(text)
    if text:
        with pytest.raises(Invalid):
            CATALOGUE.choose(text)


@pytest.mark.parametrize("release", CATALOGUE.releases, ids=str)
def test_what_is_offered_is_chosen_with_and_without_a_v(release: Release) -> None:
    assert CATALOGUE.choose(release.version) == CATALOGUE.choose(f"v{release.version}") == release


def test_asking_for_nothing_gives_the_default() -> None:
    assert CATALOGUE.choose("").version == CATALOGUE.default


def test_what_is_not_offered_is_refused_with_what_is() -> None:
    catalogue = Catalogue(
        releases=(
            Release(version="1.10.0", series="noble"),
            Release(version="1.9.3", series="jammy"),
        ),
        default="1.9.3",
    )
    with pytest.raises(Invalid, match=r"1\.8\.0 is not in the catalogue, which offers 1\.9\.3, 1"):
        catalogue.choose("v1.8.0")
    assert known(catalogue.releases) == ["1.9.3", "1.10.0"]
