/** Opens pseudo-terminals through the native module of node-pty, which the build puts beside the bundled programs. */
import { dirname, join } from 'node:path'
import type { PtySize } from './frames.ts'

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
  /** The master side, which is non-blocking. */
  readonly fd: number
  resize(size: PtySize): void
  hangUp(): void
}

/** By shell convention, a program ended by signal N exits with 128 + N. */
const SIGNAL_EXIT_CODE_BASE = 128
/** Keeps the current user and group. */
const UNCHANGED = -1

/** Throws when the native module is missing, or the system has no free pseudo-terminal. */
export function openPseudoTerminal(
  [file = '', ...args]: readonly string[],
  { cols, rows }: PtySize,
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

/** Signals the session leader's process group as the kernel does on hang-up; SIGCONT wakes a stopped process. */
function hangUp(leader: number): void {
  for (const signal of ['SIGHUP', 'SIGCONT']) {
    try {
      process.kill(-leader, signal)
    } catch {
      // The process has ended.
    }
  }
}

function loadNative(): NativePty {
  const native: { exports: unknown } = { exports: {} }
  process.dlopen(native, join(dirname(process.argv[1] ?? ''), 'pty.node'))
  // The module comes from the pinned package version, so its type is not checked.
  return native.exports as NativePty
}
