/**
 * One view of a terminal in a process of its own, which reads what it is sent and does not draw it.
 *
 * Arguments: a port, a path. Says `open`; then obeys.
 */
import { createInterface } from 'node:readline'
import type { AttachInput, AttachOutput } from '../../protocol/dashboard.ts'
import { runCommands, SIZE, type TerminalIo } from './terminal-protocol.ts'
import { WebSocketClient } from './websocket-client.ts'

const [port, path = ''] = process.argv.slice(2)

const socket = await WebSocketClient.open({
  port: Number(port),
  path,
  onText: (bytes) => {
    // What hosts of ours, and those beside them, say.
    const frame = JSON.parse(bytes.toString()) as AttachOutput
    if (frame.type === 'data') terminal.onOutput?.(frame.data)
    else end(JSON.stringify(frame))
  },
  onClose: (code) => end(`closed with ${code}`),
})
const send = (frame: AttachInput): void => socket.send(JSON.stringify(frame))
const terminal: TerminalIo = { write: (data) => send({ type: 'input', data }), onOutput: undefined }
send({ type: 'resize', ...SIZE })
console.log('open')
await runCommands(createInterface({ input: process.stdin }), terminal)
process.exit(0)

function end(why: string): never {
  console.error(`the terminal was taken away: ${why}`)
  process.exit(1)
}
