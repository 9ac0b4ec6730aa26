/** Starts the dashboard: signs in, connects, draws. */
import { effect } from '@preact/signals'
import { render } from 'preact'
import { startKeys } from '../elements/acts.ts'
import { startClock } from '../elements/moments.tsx'
import { startRouter } from '../router.ts'
import { signIn } from '../session.ts'
import { loadPalette } from './shell/palette.tsx'
import { Shell } from './shell/shell.tsx'
import { live, startLive, tryNow } from './state/live.ts'
import { preferences } from './state/preferences.ts'

effect(() => {
  const { theme, density } = preferences.value
  const { dataset } = document.documentElement
  if (theme === 'system') delete dataset.theme
  else dataset.theme = theme
  dataset.density = density
})
startRouter()
startKeys(() => preferences.value.letterKeys)
startClock(() => live.value.state === 'reconnecting')

await signIn()
startLive()
// A link that is opened in this tab changes the fragment only.
addEventListener('hashchange', async () => {
  if (await signIn()) tryNow()
})
Promise.all([
  import('./state/read-missing-runs.ts'),
  import('./state/follow-polls.ts'),
  import('./shell/installed-app.ts'),
]).then(
  ([{ readMissingRuns }, { followPolls }, { startApp }]) => {
    readMissingRuns()
    followPolls()
    startApp()
  },
  // The counts stay marked as incomplete.
  () => {},
)
render(<Shell />, document.body)
void loadPalette()
