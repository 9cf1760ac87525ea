"""Each message on the page about SSSRMAP is answered as the page says, in its order."""

import re
from pathlib import Path

from sssrmap_peers import ACTOR, KEY, head_for_peers, real_listener

from headnode.adapters.wire.sssrmap import request_frame
from headnode.core.formats.sss.sssrmap.messages import envelope
from headnode.core.formats.sss.sssrmap.signatures import signature_of
from headnode.core.formats.sss.sssrmap.status import StatusCode

PAGE = Path(__file__).parents[2] / "docs" / "sssrmap.md"
BLOCK = re.compile(r"^```xml\n(<Request.*?|<Response.*?)\n```$", re.MULTILINE | re.DOTALL)
RESPONSE = re.compile(r"<Response>.*</Response>", re.DOTALL)


def test_the_messages_of_the_page_are_answered_as_it_says() -> None:
    blocks = BLOCK.findall(PAGE.read_text().partition("\n## A bank\n")[0])
    pairs = list(zip(blocks[::2], blocks[1::2], strict=True))
    assert len(pairs) > 12
    with head_for_peers(processors=2) as head:
        (node,) = [each["name"] for each in head.ask("nodes")["nodes"]]
        table = head.state.parent / "actors"
        table.write_text(f"ann {ACTOR}\n")
        table.chmod(0o644)

        def real(text: str) -> str:
            names = {
                ">n1<": f">{node}<",
                "Id>ann<": f"Id>{ACTOR}<",
                "Name>ann<": f"Name>{ACTOR}<",
                "'ann'": f"'{ACTOR}'",
            }
            for name, ours in names.items():
                text = text.replace(name, ours)
            return text

        with real_listener(head, "--actors", str(table)) as peer:
            for request, expected in pairs:
                body = f"<Body>{real(request)}</Body>"
                message = request_frame(envelope(body, signature_of(body, KEY)))
                output = [RESPONSE.findall(peer.exchange(message).decode())[0]]
                if 'action="Query"' in request:  # what was begun before may still be on its way

                    def happened() -> bool:
                        output.append(RESPONSE.findall(peer.exchange(message).decode())[0])  # noqa: B023
                        return output[-1] == real(expected)  # noqa: B023

                    head.until(happened)
                assert output[-1] == real(expected)


def test_every_code_is_on_the_page() -> None:
    _, _, below = PAGE.read_text().partition("## Codes\n")
    section = below.split("\n## ")[0]
    found = set(re.findall(r"\b\d{3}\b", section))
    spans = [range(int(a), int(b) + 1) for a, b in re.findall(r"\b(\d{3}) to (\d{3})\b", section)]
    ours = {code.value for code in StatusCode} - {StatusCode.NO_STATUS.value}  # of answers
    assert {
        code for code in ours if code not in found and not any(int(code) in span for span in spans)
    } == set()
