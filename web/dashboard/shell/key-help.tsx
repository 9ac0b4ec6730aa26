/** The list of the keys that are valid on this page now. */
import { type Act, offeredActs } from '../../elements/acts.ts'
import { Button } from '../../elements/button.tsx'
import { showDialog } from '../../elements/dialog.tsx'
import { preferences } from '../state/preferences.ts'

let isOpen = false

export function showKeys(): void {
  if (isOpen) return
  isOpen = true
  const acts = offeredActs().filter(({ keys }) => keys !== undefined)
  showDialog((close) => <KeyHelp acts={acts} close={close} />).finally(() => {
    isOpen = false
  })
}

function KeyHelp({ acts, close }: { readonly acts: readonly Act[]; readonly close: () => void }) {
  const groups = Map.groupBy(acts, ({ group }) => group)
  return (
    <>
      <h2>Keys</h2>
      {!preferences.value.letterKeys && (
        <p>
          Single letters are switched off in the <a href="/settings#browser">settings of this browser</a>.
        </p>
      )}
      {[...groups].map(([group, members]) => (
        <section class="key-group" key={group}>
          <h3 class="faint">{group}</h3>
          <dl>
            {members.map(({ id, title, keys = '' }) => (
              <div class="key-line" key={id}>
                <dt>
                  <Keys keys={keys} />
                </dt>
                <dd>{title}</dd>
              </div>
            ))}
          </dl>
        </section>
      ))}
      <div class="dialog-acts">
        <Button act={close} autoFocus>
          Close
        </Button>
      </div>
    </>
  )
}

/** `g o` as two keys in a row, letters as they stand on the keys. */
export const Keys = ({ keys }: { readonly keys: string }) => (
  <>
    {keys.split(' ').map((key, at) => (
      <>
        {at > 0 && ' '}
        <kbd>{key.length === 1 ? key.toUpperCase() : key}</kbd>
      </>
    ))}
  </>
)
