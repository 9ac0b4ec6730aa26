/**
 * Reads a run's whole log many times at once, and throws it away.
 *
 * Arguments: the port and the launch token of the host, the run's id, and the number of readers. Prints how many bytes
 * all of them have read.
 */
import { get } from 'node:http'

const [port = '', token = '', runId = '', readers = '1'] = process.argv.slice(2)

function readLog(): Promise<number> {
  return new Promise((resolve, reject) => {
    const options = {
      host: '127.0.0.1',
      port: Number(port),
      path: `/api/runs/${runId}/events`,
      headers: { authorization: `Bearer ${token}` },
      agent: false,
    }
    const request = get(options, (response) => {
      let bytes = 0
      response.on('data', (chunk: Buffer) => {
        bytes += chunk.length
      })
      response.on('end', () =>
        response.statusCode === 200 ? resolve(bytes) : reject(new Error(`answered ${response.statusCode}`)),
      )
      response.on('error', reject)
    })
    request.on('error', reject)
  })
}

const sizes = await Promise.all(Array.from({ length: Number(readers) }, readLog))
if (new Set(sizes).size !== 1)
  throw new Error(`the readers have read different sizes: ${[...new Set(sizes)]}`)
console.log(sizes.reduce((sum, bytes) => sum + bytes, 0))
