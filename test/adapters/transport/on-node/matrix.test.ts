/** The tests of `../matrix.test.ts` on the listener of Node. */
import { useNodeListener } from '../../../support/test-listener.ts'

useNodeListener()
await import('../matrix.test.ts')
