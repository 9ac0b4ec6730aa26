/** Goes to a saved view of the runs, saves the filters of the address as one, and deletes it. */
import { useSignal } from '@preact/signals'
import { Button } from '../../elements/button.tsx'
import { showDialog } from '../../elements/dialog.tsx'
import { FilterSelect, TextField } from '../../elements/field.tsx'
import { FormDialog } from '../../elements/form-dialog.tsx'
import { address, navigate } from '../../router.ts'
import { changeView, savedViews } from './saved-views.ts'
import { whyNotSaved } from './view-rules.ts'

export function ViewPicker() {
  const views = Object.entries(savedViews.value)
  const query = address.value.query.toString()
  const [current] = views.find(([, saved]) => saved === query) ?? []
  return (
    <>
      {views.length > 0 && (
        <FilterSelect
          label="Saved view"
          value={current ?? ''}
          change={(name) => navigate(`/runs?${savedViews.value[name] ?? ''}`)}
          options={[['', 'Saved views'], ...views.map(([name]) => [name, name] as const)]}
        />
      )}
      {current === undefined && query !== '' && (
        <Button small act={() => showDialog((close) => <SaveView query={query} close={close} />)}>
          Save view…
        </Button>
      )}
      {current !== undefined && (
        <Button small act={() => changeView(current, undefined)}>
          Delete view
        </Button>
      )}
    </>
  )
}

function SaveView({ query, close }: { readonly query: string; readonly close: () => void }) {
  const name = useSignal('')
  return (
    <FormDialog
      title="Save this view"
      act="Save view"
      busyWord="Saving"
      unavailable={whyNotSaved(name.value.trim(), savedViews.value)}
      send={async () => changeView(name.value.trim(), query)}
      close={close}
    >
      <TextField
        label="Name"
        hint="This browser keeps it."
        value={name.value}
        change={(text) => {
          name.value = text
        }}
        autoFocus
      />
    </FormDialog>
  )
}
