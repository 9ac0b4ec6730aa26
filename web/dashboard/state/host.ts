/** The host as the page reaches it: requests and sockets of its own origin, where a cookie stands in the token's place. */
import { createBrowserConnection } from '../../../client/browser.ts'
import { createClient } from '../../../client/client.ts'

export const connection = createBrowserConnection({
  fetch: (...request) => fetch(...request),
  WebSocket,
  origin: location.origin,
})

/** Rows of lists show no descriptions, and a page that shows one reads its ticket. */
export const FOR_ROWS = { omit: 'description' } as const

/** A function for each request of the public interface. */
export const host = createClient(connection)
