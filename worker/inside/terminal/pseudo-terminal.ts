/** Making pseudo-terminals, which Node can't: the native part of node-pty, as the build lays it beside the programs. */
import { dirname, join } from 'node:path'
import type { Size } from './frames.ts'

interface Native {
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

export interface Terminal {
  /** Its outer end, which never blocks. */
  readonly fd: number
  resize(size: Size): void
  hangUp(): void
}

/** By a shell's convention. */
const SIGNALLED = 128
/** The user stays who he is. */
const AS_IS = -1

/** Throws when there is no native part, or no more terminal to be had. */
export function openTerminal(
  [file = '', ...args]: readonly string[],
  { cols, rows }: Size,
  exited: (code: number) => void,
): Terminal {
  const native = load()
  const environment = Object.entries(process.env).map(([name, value]) => `${name}=${value ?? ''}`)
  const told = (code: number, signal: number) => exited(signal === 0 ? code : SIGNALLED + signal)
  const cwd = process.cwd()
  const { fd, pid } = native.fork(file, args, environment, cwd, cols, rows, AS_IS, AS_IS, true, '', told)
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

function load(): Native {
  const native: { exports: unknown } = { exports: {} }
  process.dlopen(native, join(dirname(process.argv[1] ?? ''), 'pty.node'))
  // It comes with this very version of its package; there is nothing to check it by but using it.
  return native.exports as Native
}
