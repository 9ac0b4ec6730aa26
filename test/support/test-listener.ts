/**
 * The listener that tests open their servers with: the one that this machine's programs use, or the one of Node in the
 * test files that say so.
 */
import { chooseProgramListener } from '../../bin/process/program-listener.ts'
import type { HttpListener } from '../../transport/listener-port.ts'
import { nodeListener } from '../../transport/node/node-listener.ts'

let chosen: HttpListener | undefined

/** All servers of this test file use node:http. */
export function useNodeListener(): void {
  chosen = nodeListener
}

/** The native builds for newer versions of Node have a stricter parser than that for Node 20. */
export const isStrictNative = (): boolean =>
  testListener().name === 'native' && process.versions.modules !== '115'

export function testListener(): HttpListener {
  chosen ??= chooseProgramListener().listener
  return chosen
}
