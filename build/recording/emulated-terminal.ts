/** A terminal in this process: a pseudo-terminal, and the emulator with which the product keeps screens. */
import { spawn } from '@lydell/node-pty'
import { Terminal } from '@xterm/headless'
import { keepReading } from './keep-reading.ts'
import {
  type RecordedTerminal,
  SCROLLBACK_LINES,
  SHELL,
  type TerminalOptions,
  trimLines,
} from './recorded-terminal.ts'

export async function openEmulatedTerminal({
  columns: cols,
  rows,
  folder: cwd,
  env,
}: TerminalOptions): Promise<RecordedTerminal> {
  const [file, ...args] = SHELL
  const pty = spawn(file, args, { cols, rows, cwd, env: { ...env, TERM: 'xterm-256color' } })
  const screen = new Terminal({ cols, rows, scrollback: SCROLLBACK_LINES, allowProposedApi: true })
  pty.onData((text) => screen.write(text))
  screen.onData((reply) => pty.write(reply))
  const stopReading = keepReading(pty)
  let isOver = false
  const ended = new Promise<void>((resolve) => {
    pty.onExit(() => {
      isOver = true
      stopReading()
      resolve()
    })
  })
  return {
    type: async (characters) => pty.write(characters),
    lines: async () => {
      await new Promise<void>((resolve) => screen.write('', resolve))
      const { active } = screen.buffer
      const all = Array.from({ length: active.length }, (_, at) =>
        active.getLine(at)?.translateToString(true),
      )
      return trimLines(all.map((line) => line ?? ''))
    },
    close: async () => {
      if (!isOver) pty.kill('SIGHUP')
      await ended
      screen.dispose()
    },
  }
}
