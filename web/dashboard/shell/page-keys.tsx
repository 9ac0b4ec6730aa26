/** The keys of the dashboard's pages, which few people ask for. */
import { showKeys } from '../../elements/key-help.tsx'
import { preferences } from '../state/preferences.ts'

export function showPageKeys(): void {
  showKeys(
    !preferences.value.letterKeys && (
      <p>
        Single letters are switched off in the <a href="/settings#browser">settings of this browser</a>.
      </p>
    ),
  )
}
