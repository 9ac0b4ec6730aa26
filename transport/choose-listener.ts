/**
 * `chooseListener` takes the native listener where its binary loads, and otherwise the one of Node, with the reason.
 *
 * Both implement the same port. The native one serves more requests with less memory; the other one runs everywhere.
 */

import type { HttpListener } from './listener-port.ts'
import { loadNativeLibrary, type NativePlatform } from './native/load-library.ts'
import { createNativeListener } from './native/native-listener.ts'
import { nodeListener } from './node/node-listener.ts'

export interface ListenerChoice {
  readonly listener: HttpListener
  /** Why the native listener is not in use. */
  readonly reason?: string
  /** A binary whose hash is not the known one, which was not loaded. */
  readonly alteredFile?: string
}

/**
 * @param folder the folder with the native listener's binaries
 * @param wanted `node` leaves the native listener out
 */
export function chooseListener(folder: string, on: NativePlatform, wanted?: 'node'): ListenerChoice {
  if (wanted === 'node') return { listener: nodeListener, reason: 'SWITCHYARD_LISTENER=node is set' }
  const loaded = loadNativeLibrary(folder, on)
  if (loaded.ok) return { listener: createNativeListener(loaded.library) }
  const { reason, alteredFile } = loaded
  return { listener: nodeListener, reason, ...(alteredFile === undefined ? {} : { alteredFile }) }
}

/** Such as `node:http (the native listener needs glibc 2.38 or Node 20)`. */
export function describeListener({ listener, reason }: ListenerChoice): string {
  const name = listener.name === 'native' ? 'native' : 'node:http'
  return reason === undefined ? name : `${name} (${reason})`
}
