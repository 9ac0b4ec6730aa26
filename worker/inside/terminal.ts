/**
 * A terminal inside a sandbox: `terminal COLUMNS ROWS COMMAND …` runs the command on a pseudo-terminal of its own, and
 * its standard input and output carry the frames of `terminal/frames.ts`.
 *
 * What is printed is read no faster than it is taken away, and what is typed is written no faster than it is read;
 * neither ever holds up the other, so Ctrl-C gets through to a command that floods. It ends when the command has, after
 * the last that was printed. When its input ends, the command is hung up, and may still put down what it has to.
 */
import { Socket } from 'node:net'
import { type Frame, FrameReader, sizeIn } from './terminal/frames.ts'
import { openTerminal } from './terminal/pseudo-terminal.ts'
import { Printed } from './terminal/terminal-output.ts'
import { Typed } from './terminal/terminal-input.ts'

const FAILED = 70
const USUAL = { cols: 80, rows: 24 }

const [cols, rows, ...command] = process.argv.slice(2)
let printed: Printed | undefined

try {
  main()
} catch (error) {
  process.stderr.write(
    `the terminal could not be opened: ${error instanceof Error ? error.message : error}\n`,
  )
  process.exitCode = FAILED
}

function main(): void {
  const size = { cols: Number(cols) || USUAL.cols, rows: Number(rows) || USUAL.rows }
  const terminal = openTerminal(command, size, (code) => printed?.ended(code))
  printed = new Printed(terminal.fd, leave)
  const input = new Socket({ fd: 0, readable: true, writable: false })
  const typed = new Typed(terminal.fd, input)
  const reader = new FrameReader()
  const obey = ({ kind, bytes }: Frame): void => {
    const wanted = kind === 'resize' ? sizeIn(bytes) : undefined
    if (wanted !== undefined) terminal.resize(wanted)
    else if (kind === 'input') typed.add(bytes)
  }
  input.on('data', (chunk: Buffer) => {
    const frames = reader.push(chunk)
    if (frames === 'broken') leave()
    else frames.forEach(obey)
  })
  input.on('error', () => {}).on('close', () => terminal.hangUp())
}

function leave(): void {
  process.exit()
}
