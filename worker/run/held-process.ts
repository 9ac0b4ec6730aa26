/**
 * `startHeld` starts a sandbox and its network at once; the command in it begins only with `begin`.
 *
 * A sandbox takes tens of milliseconds to start, and these can pass while other work for the same run is done.
 */
import type { SandboxProcess } from '../sandbox/sandbox-process.ts'
import type { SandboxCommand, SandboxSession } from './sandbox-session.ts'

export interface HeldProcess {
  readonly process: SandboxProcess
  /** Lets the command begin and gives it its input. */
  begin(): void
  /** Ends the process if its command has not begun. */
  discard(): void
}

const BEGIN_WORD = 'begin\n'
/** The shell reads one line and leaves the rest of the input to the command. */
const HOLD_SCRIPT = '{ read -r word && [ "$word" = begin ]; } || exit 125; exec "$@"'

/** Returns undefined once the session was stopped. */
export function startHeld(
  session: Pick<SandboxSession, 'start'>,
  { command, stdin = '', ...rest }: SandboxCommand,
): HeldProcess | undefined {
  const heldCommand = ['/bin/sh', '-c', HOLD_SCRIPT, 'held', ...command]
  const process = session.start({ ...rest, command: heldCommand, openInput: true })
  if (process === undefined) return undefined
  let hasBegun = false
  return {
    process,
    begin: () => {
      hasBegun = true
      process.input?.end(`${BEGIN_WORD}${stdin}`)
    },
    discard: () => {
      if (hasBegun) return
      process.kill()
      // A sandbox counts as ended when its output was read, and nobody reads this one's.
      for (const stream of [process.stdout, process.stderr]) stream.resume()
    },
  }
}
