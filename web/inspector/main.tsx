/** Starts the inspector: signs in, connects or opens the story, draws. */
import { render } from 'preact'
import { startKeys } from '../elements/keys.ts'
import { startClock } from '../elements/moments.tsx'
import { startRouter } from '../router.ts'
import { signIn } from '../session.ts'
import { startFeed } from './feed.ts'
import { InspectorPage } from './page.tsx'
import { source } from './state.ts'

startRouter()
startKeys(() => true)
startClock(() => source.value.is === 'reconnecting')

await signIn()
render(<InspectorPage />, document.body)
await startFeed()
