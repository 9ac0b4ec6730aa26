/** The tests of `../service.test.ts` on the listener of Node. */
import { useNodeListener } from '../../../support/test-listener.ts'

useNodeListener()
await import('../service.test.ts')
