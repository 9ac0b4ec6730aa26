/** Waits for conditions in tests with real processes, files and sockets. */

/** `PATIENCE=10` waits ten times as long, for tests that run behind everything else; `jest.config.mjs` sets it in CI. */
export const PATIENCE = Number(process.env.PATIENCE ?? 1)
/** Generous, because only a failing test waits this long and a busy machine is ten times slower. */
export const UNTIL_MS_MAX = 45_000

/** Pauses for a multiple of the time that the check took, because an expensive check slows down the tested processes. */
const PAUSE_PER_CHECK = 8
const PAUSE_PER_CHECK_MS_MAX = 50
/** A long wait may notice its end a little later, and what it waits for gets the processor. */
const PAUSE_PER_WAIT = 1 / 16
const PAUSE_MS_MAX = 100

/** Checks the condition every few milliseconds until it holds; fails with `what` after `ms` with patience. */
export async function until(
  what: string,
  isSo: () => boolean | Promise<boolean>,
  ms = UNTIL_MS_MAX,
  everyMs = 5,
): Promise<void> {
  const began = performance.now()
  const end = began + ms * PATIENCE
  for (;;) {
    const asked = performance.now()
    if (await isSo()) return
    if (performance.now() > end) throw new Error(`waited ${ms * PATIENCE} ms for: ${what}`)
    const now = performance.now()
    const perCheck = Math.min(PAUSE_PER_CHECK * (now - asked), PAUSE_PER_CHECK_MS_MAX)
    const perWait = Math.min(PAUSE_PER_WAIT * (now - began), PAUSE_MS_MAX)
    await new Promise((resolve) => setTimeout(resolve, Math.max(everyMs, perCheck, perWait)))
  }
}
