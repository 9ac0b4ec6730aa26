/** The tests of `../inspect-socket.test.ts` on the listener of Node. */
import { useNodeListener } from '../../../support/test-listener.ts'

useNodeListener()
await import('../inspect-socket.test.ts')
