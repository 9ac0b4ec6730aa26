/** The tests of `../dashboard.test.ts` on the listener of Node. */
import { useNodeListener } from '../../../support/test-listener.ts'

useNodeListener()
await import('../dashboard.test.ts')
