//! The files of `remuda report --plot`.

use crate::Failure;
use remuda_report::Plot;
use std::fs;
use std::path::Path;

/// Writes each chart in both formats. Returns the paths of all files, one on each line.
pub fn write(folder: &Path, plots: &[Plot]) -> Result<String, Failure> {
    let refused = |error: std::io::Error| {
        let folder = folder.display();
        format!(
            "--plot {folder}: cannot write there: {error}; fix: give a folder that you can write to"
        )
    };
    fs::create_dir_all(folder).map_err(refused)?;
    let mut files = Vec::new();
    for plot in plots {
        let kinds = [("svg", plot.svg.as_bytes()), ("png", &plot.png[..])];
        for (ending, content) in kinds {
            let path = folder.join(format!("{}.{ending}", plot.name));
            fs::write(&path, content).map_err(refused)?;
            files.push(path.display().to_string());
        }
    }
    Ok(files.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_is_two_files_and_a_folder_that_cannot_be_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let (name, svg) = ("ranking-all-paths".to_owned(), "<svg/>".to_owned());
        let plots = [Plot { name, svg, png: vec![1, 2] }];
        let at = folder.path().join("a/b");
        let paths = write(&at, &plots).unwrap();
        let [svg, png] = ["svg", "png"].map(|it| at.join(format!("ranking-all-paths.{it}")));
        assert_eq!(paths, format!("{}\n{}", svg.display(), png.display()));
        assert_eq!(fs::read_to_string(&svg).unwrap(), "<svg/>");
        assert_eq!(fs::read(png).unwrap(), [1, 2]);
        let error = write(&svg, &plots).unwrap_err().to_string();
        assert!(error.starts_with(&format!("--plot {}: cannot write there: ", svg.display())));
        assert!(error.ends_with("; fix: give a folder that you can write to"), "{error}");
    }
}
