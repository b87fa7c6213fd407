// Forms that change something: sent as JSON to /v1, which no page of another origin may do in a reader's name.
export async function send(form) {
  const { send: method, body, then, done, sure } = form.dataset;
  if (sure && !confirm(sure)) return;
  const said = form.querySelector(".said");
  const button = form.querySelector("button");
  const given = Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, value.trim()]));
  const content = method === "DELETE" ? {} : { body: JSON.stringify({ ...JSON.parse(body), ...given }) };
  button.disabled = true;
  said.textContent = "";
  try {
    const answer = await fetch(form.action, { method, headers: { "Content-Type": "application/json" }, ...content });
    if (!answer.ok) throw new Error((await answer.json().catch(() => ({}))).detail ?? `The service answered ${answer.status}.`);
    if (then) return location.assign(then);
    form.reset();
    said.textContent = done;
  } catch (error) {
    said.textContent = error instanceof TypeError ? "The service does not answer; try again." : error.message;
  }
  button.disabled = false;
}
