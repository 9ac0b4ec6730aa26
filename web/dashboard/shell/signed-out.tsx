/** Stands in the page's place while this browser is not signed in, and says how to get a link that is good. */
import { PageHead } from '../../elements/page-head.tsx'

export function SignedOut() {
  return (
    <main class="signed-out" id="main">
      <PageHead title="This browser is not signed in" />
      <p>
        The link that opened this page was used before, or is too old, or the dashboard was started again. Run
        this in a terminal of the machine that the host runs on, and open the link that it prints:
      </p>
      <pre>switchyard dashboard</pre>
    </main>
  )
}
