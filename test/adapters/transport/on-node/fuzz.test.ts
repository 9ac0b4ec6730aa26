/** The tests of `../fuzz.test.ts` on the listener of Node. */
import { useNodeListener } from '../../../support/test-listener.ts'

useNodeListener()
await import('../fuzz.test.ts')
