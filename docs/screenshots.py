"""Screenshots of the web page over the demo corpus, light and dark, wide and narrow: `make screenshots`.

python -m docs.screenshots [--into docs/images]
"""

import argparse
import base64
import struct
import sys
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from playwright.sync_api import Browser, sync_playwright

from tests.support.servers.browser import HOW_TO_GET_ONE, find_chromium, launch_arguments
from tests.support.servers.processes import akin_process

WIDE, NARROW = (1280, 860), (400, 860)
RESULTS = "/?paper=demo%3Ap09-m05&facet=method"
MAX_BYTES = 150_000
# Returns the pixels of a PNG as red, green, blue and opacity, one after another.
PIXELS = """async (png) => {
    const image = await createImageBitmap(await (await fetch(`data:image/png;base64,${png}`)).blob());
    const canvas = new OffscreenCanvas(image.width, image.height).getContext("2d");
    canvas.drawImage(image, 0, 0);
    const pixels = canvas.getImageData(0, 0, image.width, image.height).data;
    let text = "";
    for (let at = 0; at < pixels.length; at += 30000) {
        text += String.fromCharCode(...pixels.subarray(at, at + 30000));
    }
    return btoa(text);
}"""


@dataclass(frozen=True, slots=True)
class Scene:
    """One screenshot: a page at a size (width, height in pixels) in a colour scheme."""

    name: str
    path: str
    size: tuple[int, int]
    scheme: str


SCENES = (
    Scene("results-wide-light", RESULTS, WIDE, "light"),
    Scene("results-wide-dark", RESULTS, WIDE, "dark"),
    Scene("results-narrow-light", RESULTS, NARROW, "light"),
    Scene("results-narrow-dark", f"{RESULTS}#result-1", NARROW, "dark"),
    Scene("why-wide-light", f"{RESULTS}&open=1#result-1", (1280, 1100), "light"),
    Scene("ask-wide-light", "/", WIDE, "light"),
    Scene("ask-narrow-dark", "/", NARROW, "dark"),
    Scene("batch-wide-light", "/batch", WIDE, "light"),
)


def take(browser: Browser, address: str, scene: Scene) -> bytes:
    """Take the screenshot of a scene as a PNG."""
    width, height = scene.size
    context = browser.new_context(
        base_url=address, color_scheme=scene.scheme, viewport={"width": width, "height": height}
    )
    page = context.new_page()
    page.goto(scene.path, wait_until="networkidle")
    taken = base64.b64encode(page.screenshot(animations="disabled")).decode()
    page.goto("about:blank")  # a page without a policy against reading images
    pixels = np.frombuffer(base64.b64decode(page.evaluate(PIXELS, taken)), np.uint8)
    context.close()
    return with_palette(pixels.reshape(height, width, 4)[..., :3])


def with_palette(pixels: UInt8[np.ndarray, "height width 3"]) -> bytes:
    """Return a PNG of at most 256 colours: half the bytes, with no visible difference in pages of text."""
    height, width, _ = pixels.shape
    flat = pixels.reshape(-1, 3)
    for dropped in range(8):  # low bits of each channel that are ignored when colours are merged
        codes = (flat >> dropped).astype(np.uint32) @ np.array([1 << 16, 1 << 8, 1], np.uint32)
        names, index, counts = np.unique(codes, return_inverse=True, return_counts=True)
        if len(names) <= 256:
            break
    # A palette colour is the mean of its pixels, so that large plain areas keep their colour.
    sums = np.stack([np.bincount(index, weights=flat[:, channel]) for channel in range(3)], axis=1)
    palette = np.rint(sums / counts[:, None]).astype(np.uint8)
    rows = np.zeros((height, 1 + width), np.uint8)  # each row starts with its filter number: none
    rows[:, 1:] = index.reshape(height, width)
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        (b"PLTE", palette.tobytes()),
        (b"IDAT", zlib.compress(rows.tobytes(), 9)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in parts
    )


def main() -> None:
    """Serve the demo corpus and take every scene; exit with an error if an image is too large."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path, default=Path(__file__).parent / "images")
    into: Path = parser.parse_args().into
    program = find_chromium()
    if program is None:
        sys.exit(HOW_TO_GET_ONE)
    into.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        akin_process(
            "demo", "--data", f"{folder}/demo", "--port", "0", ready="Serving", AKIN_LOG_LEVEL="error"
        ) as (_, line),
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=program, args=launch_arguments())
        address = f"http://{line.split('http://')[1].split()[0]}"
        for scene in SCENES:
            taken = take(browser, address, scene)
            if len(taken) > MAX_BYTES:
                sys.exit(f"{scene.name} has {len(taken):,} bytes, more than {MAX_BYTES:,}; show less on it")
            (into / f"{scene.name}.png").write_bytes(taken)
            print(f"{scene.name}.png  {len(taken) / 1000:.0f} kB")
        browser.close()


if __name__ == "__main__":
    main()
