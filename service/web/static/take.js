// Buttons that copy: the link to this search, and the command that asks the same.
export function take(main) {
  for (const button of main.querySelectorAll("[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", () => copy(button));
  }
}

async function copy(button) {
  const curl = document.getElementById("curl");
  const words = button.textContent;
  try {
    const link = document.querySelector("a.stays")?.href ?? location.href;
    await navigator.clipboard.writeText(button.dataset.copy === "curl" ? curl.textContent : link);
    button.textContent = "Copied";
  } catch {
    // Where browsers allow no script to copy (pages without TLS), it is marked to be copied by hand.
    if (button.dataset.copy === "curl") getSelection().selectAllChildren(curl);
    button.textContent = button.dataset.copy === "curl" ? "Marked: copy it with your keyboard" : "Copy it from the address bar";
  }
  setTimeout(() => (button.textContent = words), 2500);
}
