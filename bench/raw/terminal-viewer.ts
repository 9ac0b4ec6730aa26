/**
 * One view of a terminal in a process of its own, which reads what it is sent and does not draw it.
 *
 * Arguments: a port, a path. Says `open`; then obeys.
 */
import { createInterface } from 'node:readline'
import type { AttachInput, AttachOutput } from '../../protocol/dashboard.ts'
import { obey, SIZE, type Typewriter } from './terminal-protocol.ts'
import { Wire } from './websocket-client.ts'

const [port, path = ''] = process.argv.slice(2)

const wire = await Wire.open({
  port: Number(port),
  path,
  heard: (bytes) => {
    // What hosts of ours, and those beside them, say.
    const frame = JSON.parse(bytes.toString()) as AttachOutput
    if (frame.type === 'data') typewriter.heard?.(frame.data)
    else end(JSON.stringify(frame))
  },
  closed: (code) => end(`closed with ${code}`),
})
const say = (frame: AttachInput): void => wire.send(JSON.stringify(frame))
const typewriter: Typewriter = { type: (data) => say({ type: 'input', data }), heard: undefined }
say({ type: 'resize', ...SIZE })
console.log('open')
await obey(createInterface({ input: process.stdin }), typewriter)
process.exit(0)

function end(why: string): never {
  console.error(`the terminal was taken away: ${why}`)
  process.exit(1)
}
