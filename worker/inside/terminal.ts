/**
 * `terminal COLUMNS ROWS COMMAND …` runs a command on a pseudo-terminal inside a sandbox.
 *
 * Standard input and output carry the frames of `terminal/frames.ts`. Both directions have backpressure and are
 * independent, so Ctrl-C reaches a command that floods its output. The program exits after the command and its last
 * output. When the input ends, the command gets SIGHUP and can still save its state.
 */
import { Socket } from 'node:net'
import { decodeSize, type PtyFrame, PtyFrameReader } from './terminal/frames.ts'
import { openPseudoTerminal } from './terminal/pseudo-terminal.ts'
import { TerminalInput } from './terminal/terminal-input.ts'
import { TerminalOutput } from './terminal/terminal-output.ts'

const FAILED = 70
const DEFAULT_SIZE = { cols: 80, rows: 24 }

const [cols, rows, ...command] = process.argv.slice(2)
let terminalOutput: TerminalOutput | undefined

try {
  main()
} catch (error) {
  process.stderr.write(
    `the terminal could not be opened: ${error instanceof Error ? error.message : error}\n`,
  )
  process.exitCode = FAILED
}

function main(): void {
  const size = { cols: Number(cols) || DEFAULT_SIZE.cols, rows: Number(rows) || DEFAULT_SIZE.rows }
  const terminal = openPseudoTerminal(command, size, (code) => terminalOutput?.onCommandExit(code))
  terminalOutput = new TerminalOutput(terminal.fd, exit)
  const input = new Socket({ fd: 0, readable: true, writable: false })
  const terminalInput = new TerminalInput(terminal.fd, input)
  const reader = new PtyFrameReader()
  const handleFrame = ({ kind, bytes }: PtyFrame): void => {
    const newSize = kind === 'resize' ? decodeSize(bytes) : undefined
    if (newSize !== undefined) terminal.resize(newSize)
    else if (kind === 'input') terminalInput.add(bytes)
  }
  input.on('data', (chunk: Buffer) => {
    const frames = reader.push(chunk)
    if (frames === 'broken') exit()
    else frames.forEach(handleFrame)
  })
  input.on('error', () => {}).on('close', () => terminal.hangUp())
}

function exit(): void {
  process.exit()
}
