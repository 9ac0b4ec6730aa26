/**
 * A command in a local pseudo-terminal. Arguments: `socket` or `alone`, a home, a command and its arguments.
 *
 * `socket`: what it prints goes to whoever opens a WebSocket here, in the frames of the attach socket, and no faster
 * than it is taken; nothing else is done with it. Says its port. `alone`: this very process is who types and looks;
 * says `open`, then obeys.
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
      // What a view of ours says.
      const frame = JSON.parse(Buffer.from(bytes).toString()) as AttachInput
      if (frame.type === 'input') socket.getUserData().pty?.write(frame.data)
    },
  })
  listen(app)
}
