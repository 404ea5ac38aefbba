// What the judges that Node runs share: where the server is, and one line on the output for each check.

export const URL = process.env.QANAT_URL;
export const KEY = process.env.QANAT_KEY;
export const MODEL = "pocket";
export const ask = (text) => [{ role: "user", content: text }];

/** Run a check; it passes unless it throws. */
export async function check(name, run) {
  let why = null;
  try {
    await run();
  } catch (error) {
    console.error(error);
    why = `${error.name}: ${error.message}`.slice(0, 400);
  }
  console.log(JSON.stringify({ check: name, passed: why === null, why }));
}

/** The error that a promise is rejected with. */
export async function rejection(promise) {
  let value;
  try {
    value = await promise;
  } catch (error) {
    return error;
  }
  throw new Error(`it was not rejected, but gave ${JSON.stringify(value)}`);
}
