/** `serve --dashboard` and `serve --inspect`: a page in the process of the host. A page that cannot be served is no reason not to serve. */
import type { HostAddress } from '../../client/connection.ts'
import { reasonOf } from '../../client/errors.ts'
import { sendByNode } from '../../client/node-http.ts'
import { dialByNode } from '../../client/node-socket.ts'
import type { PageServer } from '../../transport/pages/page-server-options.ts'
import { type OpenPageOptions, openPage } from './open-page.ts'

export interface HostPageOptions extends Omit<OpenPageOptions, 'connection'> {
  readonly address: HostAddress
}

/** Prints the link on standard output. */
export async function openHostPage({
  address,
  ...options
}: HostPageOptions): Promise<PageServer | undefined> {
  const connection = { address: () => address, send: sendByNode, dial: dialByNode }
  const why = (reason: string) => options.log.warn({}, `the ${options.kind.name} is not served: ${reason}`)
  try {
    const opened = await openPage({ ...options, connection })
    if (opened.ok) {
      // A reader that has what it wants may close the pipe.
      process.stdout.on('error', () => {})
      process.stdout.write(`${opened.value.createLink()}\n`)
      return opened.value
    }
    why(opened.refusal.message)
  } catch (error) {
    why(reasonOf(error))
  }
  return undefined
}
