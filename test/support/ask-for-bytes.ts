/** `askForBytes` returns the body of an answer as it was on the wire: nothing asks for compression by itself, or undoes it. */
import { type IncomingHttpHeaders, request } from 'node:http'

export interface BytesReply {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
}

/** @param lines headers such as `Accept-Encoding: br` */
export function askForBytes(port: number, path: string, lines: readonly string[] = []): Promise<BytesReply> {
  const headers = lines.map((line) => {
    const at = line.indexOf(':')
    return [line.slice(0, at), line.slice(at + 1).trim()] as const
  })
  return new Promise((resolve, reject) => {
    const asked = request(
      { host: '127.0.0.1', port, path, agent: false, headers: Object.fromEntries(headers) },
      async (reply) => {
        const parts: Buffer[] = []
        try {
          for await (const part of reply) parts.push(part)
        } catch (error) {
          reject(error)
          return
        }
        resolve({ status: reply.statusCode ?? 0, headers: reply.headers, body: Buffer.concat(parts) })
      },
    )
    asked.on('error', reject)
    asked.end()
  })
}
