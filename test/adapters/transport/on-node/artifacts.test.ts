/** The tests of `../artifacts.test.ts` on the listener of Node. */
import { useNodeListener } from '../../../support/test-listener.ts'

useNodeListener()
await import('../artifacts.test.ts')
