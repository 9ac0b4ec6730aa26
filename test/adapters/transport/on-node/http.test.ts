/** The tests of `../http.test.ts` on the listener of Node. */
import { useNodeListener } from '../../../support/test-listener.ts'

useNodeListener()
await import('../http.test.ts')
