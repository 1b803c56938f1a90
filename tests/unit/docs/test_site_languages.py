"""Links and anchors of the documentation site, where a page is there in two languages."""

import pytest
from site_languages import anchors, link_for_site, url_of, with_anchors

CHINESE, ENGLISH = "zh/retry.md", "retry.md"


def followed(text: str, source: str, language: str) -> str:
    url = f"zh/{url_of(ENGLISH)}/" if language == "zh" else f"{url_of(source)}/"
    return link_for_site(text, source, url, language)


def test_a_heading_gets_the_anchor_of_its_original() -> None:
    text = "# 重试\n\n```sh\n# 注释\n```\n\n## 队列锁\n"
    names = anchors("# Retry\n\n```sh\n# a comment\n```\n\n## The queue lock\n")
    assert names == ["retry", "the-queue-lock"]
    marked = with_anchors(text, names)
    assert marked == "# 重试 { #retry }\n\n```sh\n# 注释\n```\n\n## 队列锁 { #the-queue-lock }\n"


def test_headings_of_one_text_have_anchors_of_their_own() -> None:
    assert anchors("# A\n## B\n## `B`\n## [B](c.md)\n") == ["a", "b", "b-1", "b-2"]


def test_a_link_to_a_chinese_heading_leads_to_the_anchor_of_its_original() -> None:
    assert followed("[锁](offsets.md#访问锁)", CHINESE, "zh") == "[锁](offsets.md#the-access-lock)"
    assert followed("[锁](#队列锁)", CHINESE, "zh") == "[锁](#the-queue-lock)"


@pytest.mark.parametrize(
    ("text", "source"),
    [
        (
            "[设置](../configuration.md#broker)",
            CHINESE,
        ),  # not translated: English in the Chinese site
        ("[lock](offsets.md#the-access-lock)", ENGLISH),
        ("[web](https://rocketmq.apache.org)", CHINESE),
        ("[nothing](nothing.md#nowhere)", CHINESE),
        ("[重置](offsets.md#nowhere)", CHINESE),  # MkDocs reports it
    ],
)
def test_other_links_stay(text: str, source: str) -> None:
    assert followed(text, source, "zh") == text


def test_the_link_to_the_original_leads_out_of_the_chinese_site() -> None:
    english = followed("[English](../retry.md)", CHINESE, "zh")
    assert english == '<a href="../../retry/">English</a>'


def test_a_link_to_a_translation_leads_into_the_chinese_site() -> None:
    chinese = link_for_site("[中文](zh/README.md)", "README.md", "./", "en")
    assert chinese == '<a href="zh/">中文</a>'
