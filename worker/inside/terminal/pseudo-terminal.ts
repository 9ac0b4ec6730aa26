/** Making pseudo-terminals, which Node can't: the native part of node-pty, as the build lays it beside the programs. */
import { dirname, join } from 'node:path'
import type { FrameSize } from './frames.ts'

interface NativePty {
  fork(
    file: string,
    args: readonly string[],
    environment: readonly string[],
    cwd: string,
    cols: number,
    rows: number,
    uid: number,
    gid: number,
    utf8: boolean,
    helper: string,
    exited: (code: number, signal: number) => void,
  ): { readonly fd: number; readonly pid: number }
  resize(fd: number, cols: number, rows: number): void
}

export interface PseudoTerminal {
  /** Its outer end, which never blocks. */
  readonly fd: number
  resize(size: FrameSize): void
  hangUp(): void
}

/** By a shell's convention. */
const SIGNAL_EXIT_CODE_BASE = 128
/** The user stays who he is. */
const UNCHANGED = -1

/** Throws when there is no native part, or no more terminal to be had. */
export function openPseudoTerminal(
  [file = '', ...args]: readonly string[],
  { cols, rows }: FrameSize,
  onExit: (code: number) => void,
): PseudoTerminal {
  const native = loadNative()
  const environment = Object.entries(process.env).map(([name, value]) => `${name}=${value ?? ''}`)
  const reportExit = (code: number, signal: number) =>
    onExit(signal === 0 ? code : SIGNAL_EXIT_CODE_BASE + signal)
  const cwd = process.cwd()
  const { fd, pid } = native.fork(
    file,
    args,
    environment,
    cwd,
    cols,
    rows,
    UNCHANGED,
    UNCHANGED,
    true,
    '',
    reportExit,
  )
  return { fd, resize: (size) => native.resize(fd, size.cols, size.rows), hangUp: () => hangUp(pid) }
}

/** Who leads the session, with his group, as the kernel would; one that was stopped hears it, too. */
function hangUp(leader: number): void {
  for (const signal of ['SIGHUP', 'SIGCONT']) {
    try {
      process.kill(-leader, signal)
    } catch {
      // It has ended.
    }
  }
}

function loadNative(): NativePty {
  const native: { exports: unknown } = { exports: {} }
  process.dlopen(native, join(dirname(process.argv[1] ?? ''), 'pty.node'))
  // It comes with this very version of its package; there is nothing to check it by but using it.
  return native.exports as NativePty
}
