/**
 * Runs a command in a local pseudo-terminal. Arguments: `socket` or `alone`, a home folder, a command and its
 * arguments.
 *
 * `socket`: sends the output in the frames of the attach socket to each client that opens a WebSocket, no faster
 * than the client reads, and does nothing else. Prints its port. `alone`: this process itself types and reads; it
 * prints `open` and then runs commands.
 */
import uWS from 'uWebSockets.js'
import { createInterface } from 'node:readline'
import { type IPty, spawn } from '@lydell/node-pty'
import type { AttachInput } from '../../protocol/dashboard.ts'
import { listen } from './bare-server.ts'
import { runCommands, SIZE, type TerminalIo } from './terminal-protocol.ts'

const BACKLOG_BYTES = 1024 * 1024

const [mode, home = '', file = '', ...args] = process.argv.slice(2)
if (mode === 'alone') await runAlone(startPty())
else serveFrames()

function startPty(): IPty {
  const env = { ...process.env, HOME: home }
  const pty = spawn(file, args, { name: 'xterm-256color', ...SIZE, cwd: home, env })
  process.on('exit', () => pty.kill('SIGKILL'))
  return pty
}

async function runAlone(pty: IPty): Promise<void> {
  const terminal: TerminalIo = { write: (data) => pty.write(data), onOutput: undefined }
  pty.onData((data) => terminal.onOutput?.(data))
  console.log('open')
  await runCommands(createInterface({ input: process.stdin }), terminal)
  process.exit(0)
}

function serveFrames(): void {
  const app = uWS.App()
  app.ws<{ pty?: IPty }>('/*', {
    maxBackpressure: 64 * BACKLOG_BYTES,
    open: (socket) => {
      const pty = startPty()
      socket.getUserData().pty = pty
      pty.onData((data) => {
        socket.send(JSON.stringify({ type: 'data', data }))
        if (socket.getBufferedAmount() > BACKLOG_BYTES) pty.pause()
      })
    },
    drain: (socket) => {
      if (socket.getBufferedAmount() < BACKLOG_BYTES / 2) socket.getUserData().pty?.resume()
    },
    message: (socket, bytes) => {
      // Sent by a view of the bench.
      const frame = JSON.parse(Buffer.from(bytes).toString()) as AttachInput
      if (frame.type === 'input') socket.getUserData().pty?.write(frame.data)
    },
  })
  listen(app)
}
