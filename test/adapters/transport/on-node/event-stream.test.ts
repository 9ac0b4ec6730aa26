/** The tests of `../event-stream.test.ts` on the listener of Node. */
import { useNodeListener } from '../../../support/test-listener.ts'

useNodeListener()
await import('../event-stream.test.ts')
