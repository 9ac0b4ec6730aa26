/** The tests of `../run-listing.test.ts` on the listener of Node. */
import { useNodeListener } from '../../../support/test-listener.ts'

useNodeListener()
await import('../run-listing.test.ts')
