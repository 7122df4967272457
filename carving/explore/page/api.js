// The JSON interface: queries are GET, changes POST; see docs/explore.md.

let session = null;
const listeners = new Set();
export const onStopped = (listener) => listeners.add(listener);
const notify = (stopped) => listeners.forEach((listener) => listener(stopped));

const RETRY_DELAY = 300; // milliseconds until a query is sent again after the connection failed

async function call(address, how, retry = how.method !== "POST") {
  let response;
  try {
    response = await fetch(address, { cache: "no-store", ...how });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    if (retry) {
      await new Promise((wait) => setTimeout(wait, RETRY_DELAY));
      return call(address, how, false);
    }
    notify(true);
    throw new Error("The explorer has stopped and does not answer.");
  }
  notify(false);
  return response;
}

async function json(response) {
  const value = await response.json();
  if (!response.ok) throw new Error(value.error);
  return value;
}

const address = (name, values) => `api/${name}?${new URLSearchParams({ ...(session ? { session } : {}), ...values })}`;

export const ask = async (name, values = {}, signal) => json(await call(address(name, values), { signal }));

export async function change(name, values = {}) {
  const body = JSON.stringify({ ...(session ? { session } : {}), ...values });
  return json(await call(`api/${name}`, { method: "POST", headers: { "content-type": "application/json" }, body }));
}

export async function open() {
  session = (await change("session")).session;
}

export async function* lines(name, values = {}, signal) {
  const response = await call(address(name, values), { signal });
  if (!response.ok) throw new Error((await response.json()).error);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read().catch((error) => {
      if (error.name === "AbortError") throw error;
      notify(true);
      throw new Error("The explorer stopped before its answer was complete.");
    });
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    for (const part of parts) {
      const line = JSON.parse(part);
      if (line.error) throw new Error(line.error);
      yield line;
    }
  }
}

// Of several queries only the last counts: earlier ones are aborted.
export function latest() {
  let going = null;
  return async (name, values) => {
    going?.abort();
    going = new AbortController();
    const own = going;
    try {
      const value = await ask(name, values, own.signal);
      return own === going ? value : null;
    } catch (error) {
      if (error.name === "AbortError" || own !== going) return null;
      throw error;
    }
  };
}
