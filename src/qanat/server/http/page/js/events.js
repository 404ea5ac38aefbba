/**
 * Server-sent events as our server writes them: lines of `data: JSON`, comments, and `[DONE]` at the end.
 */

/** The stream broke off, or its last event was an error. */
export class StreamError extends Error {}

/**
 * The objects of a stream, as they come.
 * @param {ReadableStream<Uint8Array>} stream
 */
export async function* readEvents(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    while (true) {
      const { value, done } = await reader.read();
      if (done) throw new StreamError("The connection was lost before the reply had ended.");
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      for (const line of lines) {
        if (!line.startsWith("data:")) continue; // an empty line, or a comment that keeps the connection alive
        const data = line.slice(5).trim();
        if (data === "[DONE]") return;
        const object = parse(data);
        if (object.error) throw new StreamError(String(object.error.message ?? "The server ended the reply with an error."));
        yield object;
      }
    }
  } catch (error) {
    if (error instanceof StreamError || error.name === "AbortError") throw error;
    throw new StreamError("The connection was lost before the reply had ended.");
  } finally {
    reader.cancel().catch(() => {});
  }
}

function parse(data) {
  try {
    return JSON.parse(data);
  } catch {
    throw new StreamError("The server sent what is no JSON.");
  }
}
