// The stream of the status, the token, and the buttons.

const AGAIN_MS = 2000;

const held = { token: "", samples: new Samples(), isPaused: false, latest: null, stop: null };

// Tells a change of the connection once, so that a screen reader says it once.
function tell(text, isBad) {
  const place = by("connection");
  if (place.textContent !== text) place.textContent = text;
  place.className = isBad ? "bad" : "";
  by("main").classList.toggle("stale", isBad);
}

function askForToken(isWanted) {
  by("token-form").hidden = !isWanted;
  by("give-token").setAttribute("aria-expanded", String(isWanted));
  if (isWanted) by("token").focus();
}

function take(status) {
  held.samples.add(status);
  held.latest = status;
  if (!held.isPaused) showAll(status, held.samples);
}

// Reads one stream to its end. Each line is a document.
async function read(stop) {
  const headers = held.token === "" ? {} : { Authorization: `Bearer ${held.token}` };
  const reply = await fetch("/status?watch=1", { headers, signal: stop.signal, cache: "no-store", credentials: "omit", redirect: "error" });
  if (reply.status === 401 || reply.status === 403) {
    // Its message is a Status of Kubernetes.
    const said = await reply.json().catch(() => ({}));
    const isNew = by("token-form").hidden;
    tell(reply.status === 401 ? "a token is needed" : `not allowed: ${said.message ?? "no right to /status"}`, true);
    if (isNew) askForToken(true);
    return "wait";
  }
  if (!reply.ok) throw new Error(reply.status === 429 ? "too many pages are open" : `the server answers ${reply.status}`);
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return "again";
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) take(JSON.parse(line));
    if (lines.length > 0) tell("connected", false);
  }
}

// Follows the status until another token is given.
async function follow() {
  held.stop?.abort();
  const stop = new AbortController();
  held.stop = stop;
  while (!stop.signal.aborted) {
    try {
      if (await read(stop) === "wait") return;
      tell("the stream ended: connecting again", true);
    } catch (error) {
      if (stop.signal.aborted) return;
      const why = error instanceof TypeError ? "no connection to the server" : error.message;
      tell(`${why}: trying again`, true);
    }
    await new Promise((resume) => setTimeout(resume, AGAIN_MS));
  }
}

by("give-token").addEventListener("click", () => askForToken(by("token-form").hidden));
by("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  held.token = by("token").value.trim();
  by("token").value = "";
  askForToken(false);
  tell("connecting", false);
  follow();
});
by("pause").addEventListener("click", () => {
  held.isPaused = !held.isPaused;
  by("pause").setAttribute("aria-pressed", String(held.isPaused));
  if (!held.isPaused && held.latest) showAll(held.latest, held.samples);
});

prepareSections();
follow();
