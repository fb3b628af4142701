// What the server is asked, and how its answers arrive: as events, one after another.

const KEY = "pabi-token";

/** The token of this page: from the address that pabi explore printed, or as it was kept for this address. */
export function token() {
  const match = /[#&]token=([^&]+)/.exec(location.hash);
  if (match) {
    localStorage.setItem(KEY, match[1]);
    history.replaceState(null, "", location.pathname + location.search);
  }
  return localStorage.getItem(KEY) ?? "";
}

function request(path, options = {}) {
  const headers = { authorization: `Bearer ${token()}`, ...options.headers };
  return fetch(path, { ...options, headers, credentials: "omit", cache: "no-store" });
}

async function refusal(response) {
  try {
    return (await response.json()).message;
  } catch {
    return "the server does not answer as it should";
  }
}

const GONE = "pabi explore has ended. Start it again, and open the address that it prints.";

/** What the page opens with. Throws an Error with a sentence. */
export async function opening() {
  let response;
  try {
    response = await request("/api/opening");
  } catch {
    throw new Error(GONE);
  }
  if (!response.ok) throw new Error(await refusal(response));
  return response.json();
}

/**
 * Asks for a calculation, and calls `on[event](data)` for every event of it. `on.error` gets {message, control}.
 * Resolves at the end, and at once when `signal` aborts: then nothing more is called.
 */
export async function ask(job, body, on, signal) {
  try {
    const response = await request(`/api/${job}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
      signal,
    });
    if (!response.ok) {
      on.error?.({ message: await refusal(response) });
      return;
    }
    for await (const [name, data] of events(response.body)) {
      if (signal?.aborted) return;
      on[name]?.(data);
    }
  } catch (problem) {
    if (!signal?.aborted) on.error?.({ message: problem instanceof TypeError ? GONE : String(problem) });
  }
}

/** [name, data] of each server-sent event in a stream of bytes. */
async function* events(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    let end;
    while ((end = text.indexOf("\n\n")) >= 0) {
      const [name, data] = text.slice(0, end).split("\n");
      text = text.slice(end + 2);
      yield [name.slice("event: ".length), JSON.parse(data.slice("data: ".length))];
    }
  }
}

/**
 * A function that asks anew and forgets the question before: late answers never overwrite newer ones, and what
 * is awaited of a forgotten question never comes. It waits `pause` ms for a still newer one. `drop()` forgets
 * the question and asks nothing.
 */
export function latest(pause = 0) {
  let current = null;
  const asking = async (job, body, on) => {
    asking.drop();
    const mine = new AbortController();
    current = mine;
    if (pause) await new Promise((over) => setTimeout(over, pause));
    if (!mine.signal.aborted) await ask(job, body, on, mine.signal);
    if (mine.signal.aborted) await new Promise(() => {});
  };
  asking.drop = () => current?.abort();
  return asking;
}
