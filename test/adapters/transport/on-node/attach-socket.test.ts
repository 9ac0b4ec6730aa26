/** The tests of `../attach-socket.test.ts` on the listener of Node. */
import { useNodeListener } from '../../../support/test-listener.ts'

useNodeListener()
await import('../attach-socket.test.ts')
