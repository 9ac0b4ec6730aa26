/** The tests of `../worker-socket.test.ts` on the listener of Node. */
import { useNodeListener } from '../../../support/test-listener.ts'

useNodeListener()
await import('../worker-socket.test.ts')
