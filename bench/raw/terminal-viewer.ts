/**
 * A terminal view in its own process, which reads its output and does not draw it.
 *
 * Arguments: a port, a path. Prints `open`, and then runs commands.
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
    // Sent by the product's host, or by the server that it is compared with.
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
  console.error(`the terminal was closed: ${why}`)
  process.exit(1)
}
