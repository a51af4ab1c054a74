from pathlib import Path

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
    chosen = [
        CATALOGUE.choose(text, release.series) for text in (release.version, f"v{release.version}")
    ]
    assert chosen == [release, release]


@pytest.mark.parametrize(
    ("asked", "got"), [("jammy", "jammy"), ("noble", "noble"), ("", "noble"), ("focal", "noble")]
)
def test_a_version_goes_on_the_series_asked_for_and_else_on_its_first(asked: str, got: str) -> None:
    assert CATALOGUE.choose("1.33.0", asked).series == got


def test_clusters_can_be_upgraded_all_the_way_on_the_series_they_are_on() -> None:
    for series in ("jammy", "noble"):
        versions = [Version.parse(e.version) for e in CATALOGUE.releases if e.series == series]
        minors = sorted({version.minor for version in versions})
        assert minors == list(range(minors[0], minors[-1] + 1))


@pytest.mark.parametrize(
    ("releases", "default", "wrong"),
    [
        ([("1.31", "jammy")], "1.31", "entry 1 of releases: version: '1.31' is not a version"),
        ([("v1.31.4", "jammy")], "v1.31.4", "entry 1 of releases: version: v1.31.4 is not 1.22.0"),
        ([("1.21.9", "jammy")], "1.21.9", "1.21.9 is not 1.22.0 or newer"),
        ([("2.0.0", "jammy")], "2.0.0", "2.0.0 is not 1.22.0 or newer"),
        ([("1.31.4", "Jammy!")], "1.31.4", "series: 'Jammy!' is no series such as jammy"),
        ([("1.31.4", "jammy")] * 2, "1.31.4", "entry 2 of releases: 1.31.4 on jammy is there"),
        ([("1.31.4", "jammy")], "1.32.1", "default: '1.32.1' is the version of no entry"),
        ([], "1.32.1", "default: '1.32.1' is the version of no entry"),
    ],
)
def test_a_catalogue_that_cannot_be_offered_is_refused(
    releases: list[tuple[str, str]], default: str, wrong: str
) -> None:
    entries = tuple(Release(version=version, series=series) for version, series in releases)
    with pytest.raises(ValueError, match=wrong):
        Catalogue(releases=entries, default=default)


def test_a_network_goes_with_a_version_that_is_offered() -> None:
    release = Release(version="1.31.4", series="jammy")
    given = Catalogue.model_validate(
        {"releases": [release], "default": "1.31.4", "networks": {"1.31.4": "new.yaml"}}
    )
    assert given.networks == {"1.31.4": Path("new.yaml")}
    with pytest.raises(ValueError, match=r"networks: '1.31.5' is the version of no entry"):
        Catalogue(releases=(release,), default="1.31.4", networks={"1.31.5": Path("new.yaml")})


def test_asking_for_nothing_gives_the_default() -> None:
    assert CATALOGUE.choose("").version == CATALOGUE.default


def test_what_is_not_offered_is_refused_with_what_is() -> None:
    catalogue = Catalogue(
        releases=(
            Release(version="1.30.0", series="noble"),
            Release(version="1.29.3", series="jammy"),
        ),
        default="1.29.3",
    )
    with pytest.raises(Invalid, match=r"1\.28\.0 is not in the catalogue, which offers 1\.29\.3,"):
        catalogue.choose("v1.28.0")
    assert known(catalogue.releases * 2) == ["1.29.3", "1.30.0"]
